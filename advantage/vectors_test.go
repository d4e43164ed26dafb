package advantage

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"testing"
)

type vectorSegment struct {
	TrajectoryID   string    `json:"trajectory_id"`
	GroupID        string    `json:"group_id"`
	InvIter        int       `json:"inv_iter"`
	LossMask       []int     `json:"loss_mask"`
	Values         []float64 `json:"values"`
	Rewards        []float64 `json:"rewards"`
	BootstrapValue float64   `json:"bootstrap_value"`
}

type vectorFile struct {
	GAE []struct {
		Gamma        float64 `json:"gamma"`
		LambdaActor  float64 `json:"lambda_actor"`
		LambdaCritic float64 `json:"lambda_critic"`
		Segments     []vectorSegment
		Expected     map[string]struct{ Advantages, Returns []float64 }
	}
	Group []struct {
		Groups     []string
		Scores     []float64
		GRPO, RLOO []float64
	}
}

func loadVectors(t *testing.T) vectorFile {
	t.Helper()
	data, err := os.ReadFile("../../shared/vectors/vectors.json")
	if err != nil {
		t.Skip("reference vectors are not here: ", err)
	}
	var file vectorFile
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.GAE) == 0 || len(file.Group) == 0 {
		t.Fatal("no vectors in the file")
	}
	return file
}

// near accepts a relative error. Inputs are of the order of 1, so that a small
// result is a difference of them: below .1 the error counts as one of .1.
func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*max(math.Abs(want), .1)
}

func TestVectorsGAE(t *testing.T) {
	t.Parallel()
	file := loadVectors(t)
	testVectorsGAE[float64](t, file, 1e-9)
	testVectorsGAE[float32](t, file, 1e-5)
}

func testVectorsGAE[T Float](t *testing.T, file vectorFile, tolerance float64) {
	for number, c := range file.GAE {
		for id, segments := range byTrajectory(c.Segments) {
			e := Trajectory[T]{ID: id, Bootstrap: segments[len(segments)-1].BootstrapValue}
			for _, s := range segments {
				e.Segments = append(e.Segments, newSegment(convert[T](s.Values), convert[T](s.Rewards), s.LossMask))
			}
			if _, err := GAE(e, c.Gamma, c.LambdaActor, c.LambdaCritic); err != nil {
				t.Fatal(err)
			}
			for k, s := range segments {
				name := fmt.Sprintf("%s/%d", id, s.InvIter)
				want, ok := c.Expected[name]
				if !ok {
					t.Fatalf("case %d: no expectation for %s", number, name)
				}
				for i := range want.Advantages {
					a, r := float64(e.Segments[k].Advantages[i]), float64(e.Segments[k].Returns[i])
					if !near(a, want.Advantages[i], tolerance) || !near(r, want.Returns[i], tolerance) {
						t.Errorf("case %d, %T: %s token %d: %v, %v: want %v, %v", number, T(0), name, i, a, r, want.Advantages[i], want.Returns[i])
					}
				}
			}
		}
	}
}

// byTrajectory sorts the segments of each trajectory into the order of time.
func byTrajectory(segments []vectorSegment) map[string][]vectorSegment {
	out := map[string][]vectorSegment{}
	for _, s := range segments {
		out[s.TrajectoryID] = append(out[s.TrajectoryID], s)
	}
	for _, s := range out {
		sort.Slice(s, func(i, j int) bool { return s[i].InvIter > s[j].InvIter })
	}
	return out
}

func TestVectorsGroup(t *testing.T) {
	t.Parallel()
	for number, c := range loadVectors(t).Group {
		members := map[string][]int{}
		for i, g := range c.Groups {
			members[g] = append(members[g], i)
		}
		for group, of := range members {
			scores := make([]float64, len(of))
			for j, i := range of {
				scores[j] = c.Scores[i]
			}
			grpo, rloo := GRPO(scores), RLOO(scores)
			for j, i := range of {
				if !near(grpo[j], c.GRPO[i], 1e-9) || !near(rloo[j], c.RLOO[i], 1e-9) {
					t.Errorf("case %d, group %s, score %d: grpo %v, rloo %v: want %v, %v", number, group, i, grpo[j], rloo[j], c.GRPO[i], c.RLOO[i])
				}
			}
		}
	}
}

// newSegment is a segment with columns to write to that hold no zeros yet.
func newSegment[T Float](values, rewards []T, mask []int) Segment[T] {
	s := Segment[T]{Values: values, Rewards: rewards, Mask: make([]bool, len(mask)), Advantages: make([]T, len(mask)), Returns: make([]T, len(mask))}
	for i, m := range mask {
		s.Mask[i] = m != 0
		s.Advantages[i], s.Returns[i] = 99, 99
	}
	return s
}

func convert[T Float](x []float64) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}
