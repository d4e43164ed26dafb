//go:build !unix

package train

import "os"

// lockFile does nothing: these systems have no advisory locks in the standard
// library. Two processes at one run are then the user's to avoid.
func lockFile(*os.File) error { return nil }

// peakRSS is 0 where the system does not tell.
func peakRSS() int64 { return 0 }
