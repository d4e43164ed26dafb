package lm

// adapterConfigFile is PEFT's name.
const adapterConfigFile = "adapter_config.json"
