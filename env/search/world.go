package search

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// The size of a world.
const (
	persons   = 180
	companies = 70
	cities    = 50
	entities  = persons + companies + cities

	// bearers is how many persons share a name; only their occupations differ.
	bearers = 3

	minHops, maxHops = 4, 8
)

type kind uint8

const (
	person kind = iota
	company
	city
	kinds
)

// relation leads from every entity of one kind to one of another.
type relation struct {
	name     string
	from, to kind
}

var relations = []relation{
	{"employer", person, company},
	{"birthplace", person, city},
	{"spouse", person, person},
	{"mentor", person, person},
	{"headquarters", company, city},
	{"founder", company, person},
	{"director", company, person},
	{"mayor", city, person},
	{"patron", city, person},
	{"industry", city, company},
}

// entityID is the number of an entity in its world, 0 to entities-1.
type entityID int

func (id entityID) handle() string { return "Q" + strconv.Itoa(int(id)+1) }

// fact is one line of a page: a relation and where it leads.
type fact struct {
	relation string
	target   entityID
}

// candidate is one line of a listing: a bearer of the name.
type candidate struct {
	occupation string
	id         entityID
}

// question asks where the hops lead from the right bearer of a name.
type question struct {
	name       string
	occupation string
	bearer     entityID
	hops       []string // relation names, in the order to follow
	answer     entityID
}

// world is the encyclopedia of one task. Which handle is a person, a company or a
// city, and every fact, is drawn anew from the seed.
type world struct {
	seed     uint64
	facts    [entities][]fact
	listings map[string][]candidate // by name
	byHandle map[string]entityID
	question question
}

// newWorld draws the world of a seed and a question of minHops to maxHops hops.
func newWorld(seed uint64, minHops, maxHops int) *world {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := &world{seed: seed, listings: map[string][]candidate{}, byHandle: make(map[string]entityID, entities)}

	var kindOf [entities]kind
	var members [kinds][]entityID
	for i, id := range rng.Perm(entities) {
		k := city
		if i < persons {
			k = person
		} else if i < persons+companies {
			k = company
		}
		kindOf[id] = k
		members[k] = append(members[k], entityID(id))
		w.byHandle[entityID(id).handle()] = entityID(id)
	}

	var names []string
	for i, pair := range rng.Perm(len(firstNames) * len(lastNames))[:persons/bearers] {
		name := firstNames[pair%len(firstNames)] + " " + lastNames[pair/len(firstNames)]
		jobs := rng.Perm(len(occupations))
		for j, id := range members[person][i*bearers:][:bearers] {
			w.listings[name] = append(w.listings[name], candidate{occupations[jobs[j]], id})
		}
		names = append(names, name)
	}

	spouse := map[entityID]entityID{}
	couples := rng.Perm(persons)
	for i := 0; i < persons; i += 2 {
		a, b := members[person][couples[i]], members[person][couples[i+1]]
		spouse[a], spouse[b] = b, a
	}
	for id := range entityID(entities) {
		for _, r := range relations {
			if r.from != kindOf[id] {
				continue
			}
			target := id
			for target == id {
				target = members[r.to][rng.IntN(len(members[r.to]))]
			}
			if r.name == "spouse" {
				target = spouse[id]
			}
			w.facts[id] = append(w.facts[id], fact{r.name, target})
		}
	}

	for found := false; !found; {
		hops := minHops + rng.IntN(maxHops-minHops+1)
		w.question, found = w.draw(rng, names[rng.IntN(len(names))], hops)
	}
	return w
}

// draw follows random relations from a random bearer of the name. It is no
// question when the chain comes back to where it was, or when another bearer's
// chain ends at the same answer: then a wrong choice would be rewarded.
func (w *world) draw(rng *rand.Rand, name string, hops int) (question, bool) {
	listing := w.listings[name]
	chosen := rng.IntN(bearers)
	q := question{name: name, occupation: listing[chosen].occupation, bearer: listing[chosen].id}
	at := q.bearer
	visited := map[entityID]bool{at: true}
	for range hops {
		f := w.facts[at][rng.IntN(len(w.facts[at]))]
		if visited[f.target] {
			return question{}, false
		}
		visited[f.target] = true
		q.hops = append(q.hops, f.relation)
		at = f.target
	}
	q.answer = at
	for i, other := range listing {
		if i == chosen {
			continue
		}
		if end, err := w.follow(other.id, q.hops); err != nil || end == q.answer {
			return question{}, false
		}
	}
	return q, true
}

// follow returns where the hops lead from an entity.
func (w *world) follow(from entityID, hops []string) (entityID, error) {
	at := from
next:
	for _, hop := range hops {
		for _, f := range w.facts[at] {
			if f.relation == hop {
				at = f.target
				continue next
			}
		}
		return 0, fmt.Errorf("%s has no %s", at.handle(), hop)
	}
	return at, nil
}
