package rulefile

import (
	"slices"
	"strings"

	"github.com/leapgate-go/leapgate/internal/kinds"
)

// kind is a kind of rules, with what reading and writing them needs to know of it.
type kind struct {
	kinds.Kind
	index    int // in allKinds
	fields   []kinds.Field
	names    []string          // of the fields, in files
	byName   map[string]int    // index into fields
	synonyms map[string]string // name of a field, by what others call it
}

var allKinds = func() []*kind {
	all := make([]*kind, len(kinds.All))
	for i, k := range kinds.All {
		all[i] = &kind{Kind: k, index: i, fields: k.Fields(), byName: map[string]int{}, synonyms: map[string]string{}}
		all[i].describe()
	}
	return all
}()

func (k *kind) describe() {
	for i, f := range k.fields {
		k.names = append(k.names, f.Name)
		k.byName[f.Name] = i
		for _, synonym := range f.Synonyms {
			k.synonyms[plain(synonym)] = f.Name
		}
	}
}

// required is the name of the field that a rule must have besides its resource.
func (k *kind) required() string {
	i := slices.IndexFunc(k.fields, func(f kinds.Field) bool { return f.Required != "" })
	if i < 0 {
		return ""
	}
	return k.fields[i].Name
}

// kindNamed returns the kind of that name, nil if there is none.
func kindNamed(name string) *kind {
	for _, k := range allKinds {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// kindNames returns the names of all kinds as a text has them: "a, b and c".
func kindNames(conjunction string) string {
	names := make([]string, len(allKinds))
	for i, k := range allKinds {
		names[i] = k.Name()
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}

// nearestKind returns the name of the kind, or of the limits, that was perhaps meant by the
// name of a list.
func nearestKind(key string) string {
	names := []string{limitsKey}
	synonyms := map[string]string{"limiters": limitsKey, "ratelimits": limitsKey, "keyed": limitsKey}
	for _, k := range allKinds {
		names = append(names, k.Name())
		synonyms[k.Name()+"s"], synonyms[k.Name()+"rules"] = k.Name(), k.Name()
	}
	return nearest(key, names, synonyms)
}
