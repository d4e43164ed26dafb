package kernel

func assembly(name string) (set *Set, missing string) { return nil, name }
