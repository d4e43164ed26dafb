// Skyrl is the Go half of run.sh, which tries the Tinker client against a real SkyRL
// server.
//
//	skyrl export ENVIRONMENT FOLDER   the base model of an environment, as Hugging Face's loaders read it
//	skyrl ready URL MODEL             waits until a server at URL makes models of MODEL, which is unloaded again
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/infinirl/infinirl/tinker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "skyrl:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 3 {
		switch arguments[0] {
		case "export":
			return export(arguments[1], arguments[2])
		case "ready":
			return ready(ctx, arguments[1], arguments[2])
		}
	}
	return errors.New("want export ENVIRONMENT FOLDER, or ready URL MODEL")
}

// starting bounds what a server needs to load a model and to compile its first step.
const starting = 10 * time.Minute

// ready returns when a server has made a model: it answers long before its engine does.
func ready(ctx context.Context, url, model string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	client, err := tinker.Dial(ctx, tinker.Config{URL: url})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	_, err = client.CreateModel(ctx, tinker.ModelConfig{Base: model, LoRA: tinker.LoRA{Rank: 1, TrainMLP: true, TrainAttn: true}})
	return err
}
