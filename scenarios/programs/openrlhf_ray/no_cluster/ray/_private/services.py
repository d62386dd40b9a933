import os


def get_node_ip_address():
    return os.environ["MASTER_ADDR"]
