//go:build e2e

package redis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/internal/gatetest"
	"github.com/leapgate-go/leapgate/internal/redistest"
	"github.com/leapgate-go/leapgate/leapredis"
)

// TestMemory prints how many bytes a key takes on a server: what MEMORY USAGE says of one,
// and by how much used_memory grows with many, each divided by their number. The keys are
// 20 bytes and a prefix of 4.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for admissions, keys := range map[int]int{1: 5000, 10: 1000, 100: 100, 1000: 20} {
				server := v.start(t)
				client := ways[0].client(t, server.Addr())
				for name, l := range kinds(t, client, leapredis.Config{Limit: 1 << 20, Window: time.Hour}) {
					if name == "counter" && admissions > 1 {
						continue // it is the same
					}
					fill := func(prefix string, keys, admissions int) {
						gatetest.AtOnce(32, func(id int) {
							for k := id; k < keys*admissions; k += 32 {
								if d, err := l.AllowN(t.Context(), fmt.Sprintf("%s-%013d", prefix, k%keys), 1); err != nil || !d.Allowed {
									t.Errorf("%+v, %v", d, err)
								}
							}
						})
					}
					fill("warm-up", 1, 200) // connections, and scripts
					_, err := server.Do("FLUSHALL", "SYNC")
					require.NoError(t, err)
					before := used(t, server)
					fill("client", keys, admissions)
					grown := used(t, server) - before
					each := int64(0)
					for _, key := range keysOf(t, server) {
						bytes, err := server.Do("MEMORY", "USAGE", key, "SAMPLES", "0")
						require.NoError(t, err)
						each = max(each, bytes.(int64))
					}
					t.Logf("%-16s %4d admissions in the window: MEMORY USAGE %6d bytes, used_memory %6d bytes for each of %d keys",
						name, admissions, each, grown/int64(keys), keys)
					_, err = server.Do("FLUSHALL", "SYNC")
					require.NoError(t, err)
				}
			}
		})
	}
}

func used(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	info, err := server.Info("memory", "INFO", "memory")
	require.NoError(t, err)
	n, err := strconv.ParseInt(info["used_memory"], 10, 64)
	require.NoError(t, err)
	return n
}
