// Package bases embeds the base model of every environment: small policies that
// know an environment's format, from which training starts. They are what
// `infinirl pretrain --env search -o FILE` and the same for keytodoor write.
package bases

import (
	"embed"
	"fmt"
)

//go:embed *.safetensors
var files embed.FS

// Read returns the checkpoint of an environment's base model.
func Read(environment string) ([]byte, error) {
	data, err := files.ReadFile(environment + ".safetensors")
	if err != nil {
		return nil, fmt.Errorf("no base model is embedded for environment %q: make one with `infinirl pretrain --env %s -o FILE`", environment, environment)
	}
	return data, nil
}
