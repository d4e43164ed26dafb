package train

// LockFile is lockFile, for tests that take a run's lock as another process would.
var LockFile = lockFile
