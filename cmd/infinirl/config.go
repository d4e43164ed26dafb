package main

import (
	"context"

	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/configs"
)

type configCommand struct {
	settings
}

func (configCommand) Help() string {
	return `Prints the default configuration, every key with a comment; with --config, --env,
--seed or --set, the resulting configuration, checked.

Example:
  infinirl config --env keytodoor --set train.steps=10`
}

func (c *configCommand) Run(ctx context.Context, std streams) error {
	if !c.given() {
		text, err := configs.Read(config.DefaultEnv)
		if err != nil {
			return err
		}
		_, err = std.out.Write(text)
		return err
	}
	cfg, err := c.load()
	if err != nil {
		return err
	}
	text, err := cfg.YAML()
	if err != nil {
		return err
	}
	_, err = std.out.Write(text)
	return err
}
