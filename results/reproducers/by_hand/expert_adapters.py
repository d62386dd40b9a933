# pip install torch==2.13.0 transformers==5.7.0 peft==0.19.1  # shows the fault: exit code 1
# python expert_adapters.py
#
# A LoRA adapter of a Mixtral's attention and experts is added, saved and loaded.
import sys
import tempfile

import peft
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import MixtralConfig, MixtralForCausalLM

sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
config = MixtralConfig(num_key_value_heads=2, num_local_experts=4, **sizes)
targets = ["q_proj", "v_proj", "w1", "w2", "w3"]
try:
    with tempfile.TemporaryDirectory() as folder:
        MixtralForCausalLM(config).save_pretrained(f"{folder}/base")
        model = MixtralForCausalLM.from_pretrained(f"{folder}/base")
        get_peft_model(model, LoraConfig(r=4, target_modules=targets)).save_pretrained(f"{folder}/adapter")
        PeftModel.from_pretrained(MixtralForCausalLM.from_pretrained(f"{folder}/base"), f"{folder}/adapter")
    said = "loads"
except Exception as error:
    said = f"{type(error).__name__}: {error}"
print(f"transformers {transformers.__version__}, peft {peft.__version__}: {said.splitlines()[0][:200]}")
sys.exit(said != "loads")
