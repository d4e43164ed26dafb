package lm

import (
	"fmt"
	"math"
)

// RopeScaling stretches rotary position embedding to contexts longer than those of
// pre-training. The zero value does not; the fields that a type does not read stay
// zero.
type RopeScaling struct {
	// Type is "linear" (Chen et al. 2023, arXiv:2306.15595: all frequencies are divided
	// by Factor) or "llama3" (Llama 3.1: only those of wavelengths beyond
	// OriginalMaxPositionEmbeddings/LowFreqFactor, blended into those that stay, with
	// wavelengths up to OriginalMaxPositionEmbeddings/HighFreqFactor).
	Type                          string  `json:"rope_type" yaml:"rope_type"`
	Factor                        float64 `json:"factor" yaml:"factor"`
	LowFreqFactor                 float64 `json:"low_freq_factor,omitempty" yaml:"low_freq_factor,omitempty"`
	HighFreqFactor                float64 `json:"high_freq_factor,omitempty" yaml:"high_freq_factor,omitempty"`
	OriginalMaxPositionEmbeddings int     `json:"original_max_position_embeddings,omitempty" yaml:"original_max_position_embeddings,omitempty"`
}

// hfRope is a RopeScaling in config.json.
type hfRope struct {
	RopeScaling
	OldType       string  `json:"type,omitempty"` // of rope_type, before transformers 4.43
	Theta         float64 `json:"rope_theta,omitempty"`
	PartialRotary float64 `json:"partial_rotary_factor,omitempty"`
}

func (s RopeScaling) validate() error {
	positive := func(x float64) bool { return x > 0 && x <= math.MaxFloat32 }
	switch {
	case s == RopeScaling{}:
	case s.Type != "linear" && s.Type != "llama3":
		return fmt.Errorf("rope scaling of type %q is not supported (linear or llama3)", s.Type)
	case !positive(s.Factor):
		return fmt.Errorf("rope scaling: factor is %g, want a positive number", s.Factor)
	case s.Type == "linear":
	case !positive(s.LowFreqFactor) || !positive(s.HighFreqFactor) || s.LowFreqFactor >= s.HighFreqFactor:
		return fmt.Errorf("rope scaling: low_freq_factor is %g and high_freq_factor %g, want positive numbers, the second the greater", s.LowFreqFactor, s.HighFreqFactor)
	case s.OriginalMaxPositionEmbeddings < 1:
		return fmt.Errorf("rope scaling: original_max_position_embeddings is %d, want at least 1", s.OriginalMaxPositionEmbeddings)
	}
	return nil
}

// frequency scales a frequency, in radians a position.
func (s RopeScaling) frequency(f float64) float64 {
	switch s.Type {
	case "linear":
		return f / s.Factor
	case "llama3":
		turns := float64(s.OriginalMaxPositionEmbeddings) * f / (2 * math.Pi) // in the original context
		kept := (turns - s.LowFreqFactor) / (s.HighFreqFactor - s.LowFreqFactor)
		kept = min(max(kept, 0), 1)
		return kept*f + (1-kept)*f/s.Factor
	}
	return f
}

// ropeTable holds the angles of rotary position embedding,
// position · theta^(−2i/d), scaled, for i < d/2.
type ropeTable struct {
	length   int
	cos, sin []float32 // [length, d/2]
}

// grow returns a table for at least length positions; old tables stay valid.
func (t ropeTable) grow(c Config, length int) ropeTable {
	if length <= t.length {
		return t
	}
	half := c.HeadDim / 2
	grown := ropeTable{length: max(256, 2*t.length, length)}
	grown.cos = make([]float32, grown.length*half)
	grown.sin = make([]float32, grown.length*half)
	for i := range half {
		frequency := c.RopeScaling.frequency(math.Pow(c.RopeTheta, -2*float64(i)/float64(c.HeadDim)))
		for position := range grown.length {
			sin, cos := math.Sincos(float64(position) * frequency)
			grown.cos[position*half+i] = float32(cos)
			grown.sin[position*half+i] = float32(sin)
		}
	}
	return grown
}
