package enum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnum_ThereAndBack(t *testing.T) {
	t.Parallel()
	e := Enum[uint8]{"mode", []string{"enforce", "shadow", "off"}}
	for v := range uint8(3) {
		text, err := e.Marshal(v)
		require.NoError(t, err)
		require.Equal(t, e.String(v), string(text))
		var back uint8
		require.NoError(t, e.Unmarshal(text, &back))
		require.Equal(t, v, back)
	}
}

func TestEnum_UnknownValuesAndNames(t *testing.T) {
	t.Parallel()
	e := Enum[uint8]{"mode", []string{"enforce", "shadow", "off"}}
	require.Equal(t, "mode(3)", e.String(3))
	_, err := e.Marshal(3)
	require.EqualError(t, err, "unknown mode 3; want 0 to 2")
	kept := uint8(2)
	require.EqualError(t, e.Unmarshal([]byte("Off\n"), &kept), `unknown mode "Off\n"; want enforce, shadow or off`)
	require.EqualValues(t, 2, kept)
}
