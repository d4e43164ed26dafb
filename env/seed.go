package env

import "fmt"

// splits in the order of their seed ranges; a new one is added at the end, so
// that the tasks of the others never change.
var splits = [...]Split{Train, Eval, Clone}

// Seeds is the number of seeds of a split.
const Seeds = 1 << 32

// Seed returns the seed of task i of the split: 2³² seeds a split, no two splits
// share one, and all stay below 2⁵³, where JSON numbers are exact. It panics
// when the split is unknown or i is outside [0, 2³²).
func (s Split) Seed(i int) uint64 {
	if i < 0 || uint64(i) >= Seeds {
		panic(fmt.Sprintf("env: task %d of split %q: want 0 to 2^32-1", i, string(s)))
	}
	for k, split := range splits {
		if s == split {
			return uint64(k+1)<<32 + uint64(i)
		}
	}
	panic(fmt.Sprintf("env: split %q: want train, eval or clone", string(s)))
}
