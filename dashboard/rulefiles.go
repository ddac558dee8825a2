package dashboard

import (
	"context"
	"fmt"
	"slices"

	"github.com/leapgate-go/leapgate"
	"github.com/leapgate-go/leapgate/internal/escape"
	"github.com/leapgate-go/leapgate/rulefile"
)

// RuleFiles makes a Writer of the watchers of rule files: what is changed on the page is
// written into the file, as [rulefile.Watcher.Save] does.
func RuleFiles(watchers ...*rulefile.Watcher) Writer { return ruleFiles(slices.Clone(watchers)) }

type ruleFiles []*rulefile.Watcher

func (f ruleFiles) Sources() []string {
	sources := make([]string, len(f))
	for i, w := range f {
		sources[i] = w.Status().Path
	}
	return sources
}

func (f ruleFiles) Write(_ context.Context, source string, rules func() (leapgate.Rules, error)) error {
	for _, w := range f {
		if w.Status().Path == source {
			return w.Save(rules)
		}
	}
	return fmt.Errorf("dashboard: nobody watches %s", escape.Text(source))
}
