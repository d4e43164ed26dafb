"""What SkyRL's JAX backend imports of peft: the file beside an adapter's weights."""

import json
import os


class LoraConfig:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def save_pretrained(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "adapter_config.json"), "w") as file:
            json.dump(self.__dict__, file, default=str)
