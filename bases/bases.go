// Package bases embeds the base model of every environment: small policies that
// know an environment's format, from which training starts. They are what
// `infinirl pretrain --env search -o FILE` and the same for keytodoor and errands write.
package bases

import (
	"embed"
	"fmt"
)

//go:embed *.safetensors
var files embed.FS

// another names the environment whose base model does for one that has none of its own.
var another = map[string]string{"errands-luck": "errands"}

// Read returns the checkpoint of an environment's base model.
func Read(environment string) ([]byte, error) {
	name := environment
	if other, ok := another[environment]; ok {
		name = other
	}
	data, err := files.ReadFile(name + ".safetensors")
	if err != nil {
		return nil, fmt.Errorf("no base model is embedded for environment %q: make one with `infinirl pretrain --env %s -o FILE`", environment, environment)
	}
	return data, nil
}
