package env

import "testing"

func TestSeedsOfSplitsAreDisjoint(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, split := range splits {
		for _, i := range []int{0, 1, 2, 1000, 1<<32 - 2, 1<<32 - 1} {
			seed := split.Seed(i)
			if other, found := seen[seed]; found {
				t.Errorf("split %s, task %d: seed %d is also that of %s", split, i, seed, other)
			}
			if seed >= 1<<53 {
				t.Errorf("split %s, task %d: seed %d is no exact JSON number", split, i, seed)
			}
			seen[seed] = string(split)
		}
	}
}

func TestSeedRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(){
		"split":    func() { Split("other").Seed(0) },
		"negative": func() { Train.Seed(-1) },
		"large":    func() { Train.Seed(1 << 32) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			misuse()
		})
	}
}
