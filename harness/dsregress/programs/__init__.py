"""A user's unmodified training program as a workload. `program_adapter` is its adapter; a layer imports only from below:

- `truth`: train the same in plain PyTorch;
- `launch`: read the launch line, run it as a rank, explain failures;
- `watch`: find phases, models and losses; beside it `substitutes`: models, data and images that are not here;
- `world`: folder, network, pools, peers.
"""
