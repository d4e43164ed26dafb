package tinker

import (
	"fmt"

	"github.com/infinirl/infinirl/ppo"
)

// Profile is what has to be known of a kind of server: where it differs from what it
// accepts.
type Profile struct {
	Name string
	// RowMean: a loss is each row's Σ w·ℓ / Σ w and the mean of that over the rows since
	// the last optimizer step. False: the sum over tokens.
	RowMean bool
	// Rows: requests are filled up to a multiple of this number of rows, because the
	// server compiles its passes for each number of them that it meets. 0: they are not.
	Rows int
	// PPO: the server has the clipped loss itself.
	PPO bool
	// GradClip is how an optimizer step treats large gradients.
	GradClip GradClip
	// WeightDecay: an optimizer step obeys it.
	WeightDecay bool
	// Once: the server takes an operation of one number once, so that one whose answer
	// was lost can be submitted again. Without, such an update ends the run, which goes
	// on from its checkpoint.
	Once bool
	// CriticRole: the server has models that give values.
	CriticRole bool
	// Reference: there is room for a second policy, which scores a KL penalty.
	Reference bool
}

// GradClip is how an optimizer step treats large gradients.
type GradClip string

// The kinds: as asked for, not at all, or always to the norm 1.
const (
	ClipAsAsked GradClip = "as asked"
	ClipNever   GradClip = "never"
	ClipToOne   GradClip = "to 1"
)

// Profiles of the servers there are. SkyRLJAX was measured; the others were read, in
// documentation and source.
var (
	Hosted    = Profile{Name: "hosted", PPO: true, GradClip: ClipAsAsked, WeightDecay: true, Reference: true, Once: true}
	SkyRLJAX  = Profile{Name: "skyrl-jax", RowMean: true, Rows: 16, PPO: true, GradClip: ClipNever, WeightDecay: true, Reference: true}
	SkyRLFSDP = Profile{Name: "skyrl-fsdp", PPO: true, GradClip: ClipToOne, CriticRole: true}
)

// Profiles returns all of them.
func Profiles() []Profile { return []Profile{Hosted, SkyRLJAX, SkyRLFSDP} }

// Lookup returns the profile of a name.
func Lookup(name string) (Profile, error) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("tinker profile: %q: want %s, %s or %s", name, Hosted.Name, SkyRLJAX.Name, SkyRLFSDP.Name)
}

// check refuses settings that the server would accept without effect.
func (p Profile) check(cfg Config) error {
	switch {
	case p.GradClip != ClipAsAsked && p.GradClip != ClipNever && p.GradClip != ClipToOne:
		return fmt.Errorf("profile: grad clip %q: want %q, %q or %q", p.GradClip, ClipAsAsked, ClipNever, ClipToOne)
	case cfg.Temperature != 1:
		return fmt.Errorf("rollout.temperature: %v: want 1: Tinker servers give log-probs at no other", cfg.Temperature)
	case cfg.WeightDecay != 0 && !p.WeightDecay:
		return fmt.Errorf("train.weight_decay: %v: want 0: %s does not decay weights", cfg.WeightDecay, p.Name)
	case cfg.MaxGradNorm != 0 && p.GradClip == ClipNever:
		return fmt.Errorf("train.max_grad_norm: %v: want 0 (off): %s does not clip gradients", cfg.MaxGradNorm, p.Name)
	case cfg.MaxGradNorm != 1 && p.GradClip == ClipToOne:
		return fmt.Errorf("train.max_grad_norm: %v: want 1: %s clips gradients to 1, whatever it is asked", cfg.MaxGradNorm, p.Name)
	}
	return nil
}

// CheckLoss refuses what no surrogate can do.
func CheckLoss(cfg ppo.Config) error {
	if cfg.EntropyCoef != 0 {
		return fmt.Errorf("ppo.entropy_coef: %v: want 0: the gradient of an entropy cannot be had over Tinker", cfg.EntropyCoef)
	}
	return nil
}

// plainClip tells whether the server's own PPO is the whole loss, so that one pass does.
func (p Profile) plainClip(cfg ppo.Config) bool {
	return p.PPO && cfg.Loss == ppo.LossPPO && cfg.DualClip == 0 && !klInLoss(cfg) && cfg.RolloutCorrection == ppo.CorrectionNone
}

func klInLoss(cfg ppo.Config) bool { return cfg.KLCoef != 0 && cfg.KLIn == ppo.KLInLoss }
