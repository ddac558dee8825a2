package rulefile

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const defaultPoll = time.Second

// Config says what to watch, and how. Path is required, and Gate or Limits; the zero of
// everything else is a good default.
type Config struct {
	// Path is a rule file, or a folder of them; see [Read]. It is the Source of the rules
	// that are loaded from it, as it is given here.
	Path string

	// Gate gets the rules. Nil: the files must have none.
	Gate Gate

	// Limits are the keyed limiters that the files may change, under limits, by the names that
	// they have there. A name that is not here is an error. What a file leaves out is as
	// Describe said when Watch was called, also when it was in the file before: changes that the
	// program makes itself while it watches are undone by the next load. Each describes one
	// limit, so [limit.All] is none: give those that it was made of. A limit may
	// be raised up to limit.Config.MaxLimit, which is Limit unless it is set.
	Limits map[string]Limiter

	// Logger is told what was loaded, and what was refused, the latter once per distinct
	// error. Nil is slog.Default(). Its handler may call the watcher, but for Close.
	Logger *slog.Logger

	// Optional lets Watch begin without rules if the path is not there or is no good: the
	// gate keeps what it has, the error is logged and in Status, and the rules come when
	// the path is good. Without it, Watch fails then, and starts nothing.
	Optional bool

	// Poll is the interval at which the path is read, from 10ms to 1h. The default is 1s. A change is loaded when two
	// readings in a row find the same content, so after one to two intervals. A reading takes about 30µs for a file of
	// 10 KiB and 8ms for the largest file.
	Poll time.Duration
}

// ErrConfig is what an error of [Watch] is that the configuration is to blame for.
var ErrConfig = errors.New("leapgate: bad configuration of a rule file's watcher")

func (cfg *Config) complete() error {
	var faults []error
	if cfg.Path == "" {
		faults = append(faults, fmt.Errorf("%w: Path is empty; want a file or a folder", ErrConfig))
	}
	if cfg.Gate == nil && len(cfg.Limits) == 0 {
		faults = append(faults, fmt.Errorf("%w: Gate is nil; want a gate", ErrConfig))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Limits)) {
		l := cfg.Limits[name]
		if l == nil {
			faults = append(faults, fmt.Errorf("%w: Limits[%.64q] is nil; want a limiter", ErrConfig, name))
		} else if n := len(l.Describe()); n != 1 {
			faults = append(faults, fmt.Errorf("%w: Limits[%.64q] describes %d limits; want one", ErrConfig, name, n))
		}
		if name == "" {
			faults = append(faults, fmt.Errorf("%w: Limits has a limiter without a name; want one", ErrConfig))
		}
	}
	if cfg.Poll == 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Poll < 10*time.Millisecond || cfg.Poll > time.Hour {
		faults = append(faults, fmt.Errorf("%w: Poll is %v, must be 0 or between 10ms and 1h", ErrConfig, cfg.Poll))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return errors.Join(faults...)
}
