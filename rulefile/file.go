package rulefile

import "github.com/leapgate-go/leapgate"

// File is what a rule file says, or the files of a folder: rules, and limits of the program's
// keyed limiters.
type File struct {
	Rules  leapgate.Rules
	Limits map[string]Limit // by the names of limiters; nil if there are none
}

// ParseFile is [Parse] for all that the file says. Which limiters there are, and how large their
// limits may be, only the program knows: see [Config].Limits.
func ParseFile(name string, data []byte) (File, error) {
	p := newParser()
	p.add(name, data)
	return p.finish()
}

// ReadFile is [Read] for all that the files say, as [ParseFile].
func ReadFile(path string) (File, error) {
	c, err := readFiles(path)
	if err != nil {
		return File{}, err
	}
	return c.parse(nil).finish()
}
