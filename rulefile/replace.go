package rulefile

import (
	"errors"
	"os"
	"path/filepath"
)

// stage writes data to a temporary file beside the named one, and returns its name and the name of the file to replace
// by a rename: the one that symbolic links lead to. The data is synced, or a crash after the rename might leave an
// empty file.
func stage(name string, data []byte) (temp, target string, err error) {
	target, err = filepath.EvalSymlinks(name)
	if err != nil {
		return "", "", err
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", "", err
	}
	// The files of a folder that start with a dot are not rule files.
	f, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*")
	if err != nil {
		return "", "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
		return "", "", err
	}
	return f.Name(), target, nil
}
