package assembly

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/config"
	"github.com/infinirl/infinirl/learner/embedded"
	"github.com/infinirl/infinirl/lm"
	"github.com/infinirl/infinirl/train"
)

// LatestActor returns the path of the actor in the newest checkpoint of a run.
func LatestActor(dir string) (string, error) {
	checkpoint, err := train.LatestCheckpoint(dir)
	return filepath.Join(checkpoint, embedded.ActorName), err
}

// loadBase returns the base model of a configuration: the file it names, or the
// embedded one of its environment.
func loadBase(cfg config.Config) (*lm.Model, error) {
	if cfg.Base != "" {
		return loadModel(cfg.Base)
	}
	data, err := bases.Read(cfg.Env)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	model, err := lm.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("embedded base of %s: %w", cfg.Env, err)
	}
	return model, nil
}

// loadModel reads a checkpoint: one file, or a directory with config.json.
func loadModel(path string) (*lm.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	if info.IsDir() {
		model, err := lm.Load(path)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		return model, nil
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("base: %s is neither a file nor a folder", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("base: %w", err)
	}
	model, err := lm.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("base: %s: %w", path, err)
	}
	return model, nil
}
