class _Worker:
    class gcs_client:
        address = "none"


global_worker = _Worker()
