"""In the place of vLLM, which needs a GPU: OpenRLHF 0.7.1 to 0.7.5 import it for every command, also where nothing is generated."""
