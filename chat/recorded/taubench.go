package recorded

// matchTauBench accepts the results of tau-bench: task_id, reward and traj.
func matchTauBench(d document) bool { return d.holds("traj") && d.object.has("reward") }

func readTauBench(d document) ([]Run, error) {
	list, err := d.object.need("traj")
	if err != nil {
		return nil, err
	}
	run, err := header(d.object)
	if err != nil {
		return nil, err
	}
	run.Messages, err = messageList(list)
	return []Run{run}, err
}
