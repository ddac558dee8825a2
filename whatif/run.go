package whatif

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leapgate-go/leapgate/limit"
)

// check returns what is wrong with the terms of a configuration, beside the rules.
func (cfg *Config) check() error {
	var faults []error
	if cfg.Resolution < 0 || cfg.Resolution > time.Minute {
		faults = append(faults, fmt.Errorf("whatif: Resolution is %v; want 0 to 1m", cfg.Resolution))
	}
	if cfg.Retries < 0 || cfg.Retries > 100 {
		faults = append(faults, fmt.Errorf("whatif: Retries is %d; want 0 to 100", cfg.Retries))
	}
	for _, w := range cfg.Windows {
		if w < limit.MinWindow || w > limit.MaxWindow {
			faults = append(faults, fmt.Errorf("whatif: Windows has %v; want %v to %s each", w, limit.MinWindow, Duration(limit.MaxWindow)))
		}
	}
	return errors.Join(faults...)
}

// side is one configuration that is tried.
type side struct {
	trial *trial
	tally *tally
	lanes []*lane // the first has the tally
}

// replay sends the requests of a source through the lanes of each configuration, on the terms
// of the first. With pair, it tells what became of each request.
func replay(ctx context.Context, source Source, pair *pairing, cfgs ...*Config) ([]*side, error) {
	terms := cfgs[0]
	faults := []error{terms.check()}
	sides := make([]*side, len(cfgs))
	for i, cfg := range cfgs {
		t, err := newTrial(cfg)
		faults = append(faults, err)
		sides[i] = &side{trial: t}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	var named []string
	for _, s := range sides {
		named = append(named, s.trial.named()...)
	}
	all := newTables(named)
	p := newPlacer(terms)
	for i, s := range sides {
		for where := evenly; where < placements; where++ {
			if where > evenly && (p.step == 0 || terms.OnePlacement) {
				break
			}
			l, err := newLane(s.trial, all, terms.Retries)
			if err != nil {
				return nil, err
			}
			defer l.close()
			if where == evenly {
				s.tally = newTally(s.trial, all, s.trial.curves(terms))
				l.tally = s.tally
				if pair != nil {
					l.onDecided = pair.side(i)
				}
			}
			s.lanes = append(s.lanes, l)
			p.lanes, p.where = append(p.lanes, l), append(p.where, where)
		}
	}
	if err := p.read(ctx, all, source); err != nil {
		return nil, err
	}
	for _, l := range p.lanes {
		if l.err != nil {
			return nil, l.err
		}
	}
	return sides, nil
}

// read replays all that a source has.
func (p *placer) read(ctx context.Context, all *tables, source Source) error {
	latest, n := int64(minTime), 0
	for r, err := range source {
		if n++; n%4096 == 0 && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		q, err := all.read(&r)
		if err != nil {
			return err
		}
		if q.at < latest {
			q.at = latest
			all.late++
		}
		latest, q.number = q.at, int64(n)
		p.add(&q)
	}
	p.finish()
	return ctx.Err()
}

// curves are the windows for which there are curves.
func (t *trial) curves(cfg *Config) []time.Duration {
	all := slices.Clone(cfg.Windows)
	if len(all) == 0 {
		for i := range t.all {
			if r := &t.all[i]; r.perKey && r.rated {
				all = append(all, r.interval)
			}
		}
	}
	if len(all) == 0 {
		all = append(all, time.Minute)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Run tries rules on the requests of a source. The error says what is wrong with the
// configuration, all at once, or is that of ctx or of the source.
func Run(ctx context.Context, cfg Config, requests Source) (*Report, error) {
	sides, err := replay(ctx, requests, nil, &cfg)
	if err != nil {
		return nil, err
	}
	return sides[0].report(&cfg), nil
}
