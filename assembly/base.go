package assembly

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/infinirl/infinirl/atomicfile"
	"github.com/infinirl/infinirl/bases"
	"github.com/infinirl/infinirl/bounded"
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

// Newest returns a configuration that plays with the newest checkpoint of a run, and the
// checkpoint, if its weights have to be loaded over the base model: an adapter's, and those
// that a server has. Others are a base model themselves.
func Newest(cfg config.Config, dir string) (_ config.Config, checkpoint string, err error) {
	if cfg.Learner.Engine == config.EngineTinker || cfg.Learner.LoRA.Enabled() {
		checkpoint, err = train.LatestCheckpoint(dir)
		return cfg, checkpoint, err
	}
	cfg.Base, err = LatestActor(dir)
	return cfg, "", err
}

// maxModel bounds a model in one file.
const maxModel = 1 << 40

// loadBase returns the base model of a configuration: the file it names, or the
// embedded one of its environment.
func loadBase(cfg config.Config) (*lm.Model, error) {
	if cfg.Base != "" {
		model, err := loadModel(cfg.Base)
		if err != nil {
			return nil, fmt.Errorf("base: %w", err)
		}
		return model, nil
	}
	if cfg.Env == config.OwnTasks {
		return nil, errors.New("base: want the model that is trained: the folder of a Hugging Face model, or --learner tinker and one on a server")
	}
	if _, err := World(cfg.Env); err != nil {
		return nil, fmt.Errorf("env: %w", err)
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

// loadModel reads a model: one file, a directory with config.json, or a checkpoint of a
// run, whose actor it is then.
func loadModel(path string) (*lm.Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() && train.IsRun(path) {
		return nil, fmt.Errorf("%s: the directory of a run: want one of its checkpoints, as in checkpoints/step-000000", path)
	}
	if info.IsDir() && lm.IsAdapter(actorOf(path)) {
		return nil, fmt.Errorf("%s: an adapter, which is played on top of its base model: want infinirl eval --run, the folder of the run that it is of", path)
	}
	if info.IsDir() {
		model, err := lm.Load(actorOf(path))
		if err != nil {
			return nil, err
		}
		return actor(path, model)
	}
	data, err := bounded.ReadFile(path, maxModel)
	if err != nil {
		return nil, err
	}
	model, err := lm.Unmarshal(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return actor(path, model)
}

// actor refuses a model that is none.
func actor(path string, model *lm.Model) (*lm.Model, error) {
	if model.IsCritic() {
		return nil, fmt.Errorf("%s: a critic, which has values and no tokens to sample: want the checkpoint, or the %s in it", path, embedded.ActorName)
	}
	return model, nil
}

// actorOf returns the folder of the actor in a checkpoint of a run; any other folder is
// one itself.
func actorOf(dir string) string {
	if actor := filepath.Join(dir, embedded.ActorName); isFolder(actor) {
		return actor
	}
	return dir
}

// SaveModel writes a model as a folder of Hugging Face's form, with the tokenizer and the
// template that its configuration names.
func SaveModel(cfg config.Config, model *lm.Model, dir string) error {
	return train.CreateDirectory(dir, func(temporary string) error {
		if err := model.Save(temporary); err != nil {
			return err
		}
		from := folderOf(cmp.Or(cfg.Chat.Tokenizer, cfg.Base))
		for _, name := range []string{tokenizerFile, "tokenizer_config.json", "chat_template.jinja", "generation_config.json", "special_tokens_map.json"} {
			data, err := os.ReadFile(filepath.Join(from, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err == nil {
				err = atomicfile.WriteBytes(filepath.Join(temporary, name), data)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
