package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cluster is three primaries, which share the 16,384 slots, and a replica of each.
type Cluster struct {
	// Nodes are the servers: first those that begin as primaries, then their replicas in
	// the same order.
	Nodes []*Server
}

const primaries = 3

// StartCluster starts six servers and waits until they agree. A primary that fails is
// replaced after about a second and a half. The arguments are for each server.
func StartCluster(program Program, args ...string) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	buses := make([]int, 2*primaries)
	for i := range buses {
		bus, err := freePort()
		if err != nil {
			return c, err
		}
		node, err := Start(program, append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(bus),
			"--cluster-node-timeout", "1000",
			"--repl-diskless-sync-delay", "0", // else a replica is not in step when its primary fails
		}, args...)...)
		if err != nil {
			return c, err
		}
		buses[i] = bus
		c.Nodes = append(c.Nodes, node)
	}
	for i, node := range c.Nodes {
		if err := c.introduce(i, node, buses); err != nil {
			return c, fmt.Errorf("redistest: node %d: %w", i, err)
		}
	}
	for i, replica := range c.Nodes[primaries:] {
		id, err := c.Nodes[i].Do("CLUSTER", "MYID")
		if err != nil {
			return c, err
		}
		// The primary is not known until they have met.
		if err := c.awaitMet(buses[0], func() error { _, err := replica.Do("CLUSTER", "REPLICATE", id.(string)); return err }); err != nil {
			return c, err
		}
	}
	return c, c.awaitMet(buses[0], c.isWell)
}

// awaitMet waits until a try succeeds, and has all nodes meet the first one again every two
// seconds: on a machine that stands still for a second, a node forgets one that it is about to meet.
func (c *Cluster) awaitMet(bus int, try func() error) error {
	met := time.Now()
	return await(func() error {
		err := try()
		if err == nil || time.Since(met) < 2*time.Second {
			return err
		}
		met = time.Now()
		for _, node := range c.Nodes[1:] {
			err = errors.Join(err, c.meet(node, bus))
		}
		return err
	})
}

// introduce gives a primary its slots, and has all meet the first node.
func (c *Cluster) introduce(i int, node *Server, buses []int) error {
	if _, err := node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
		return err
	}
	if i < primaries {
		first, last := i*16384/primaries, (i+1)*16384/primaries-1
		if _, err := node.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
			return err
		}
	}
	if i == 0 {
		return nil
	}
	return c.meet(node, buses[0])
}

// meet has a node meet the first one, whose bus is given.
func (c *Cluster) meet(node *Server, bus int) error {
	_, err := node.Do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(c.Nodes[0].port), strconv.Itoa(bus))
	return err
}

// Await waits until all nodes that run say that the cluster is well, and every replica
// is in step with its primary.
func (c *Cluster) Await() error { return await(c.isWell) }

func (c *Cluster) isWell() error {
	for i, node := range c.Nodes {
		if !node.Runs() {
			continue
		}
		cluster, err := node.Info("cluster", "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		replication, err := node.Info("replication", "INFO", "replication")
		if err != nil {
			return err
		}
		switch {
		case cluster["cluster_state"] != "ok" || cluster["cluster_known_nodes"] != strconv.Itoa(len(c.Nodes)):
			return fmt.Errorf("redistest: node %d: the cluster is %v", i, cluster)
		case replication["role"] == "slave" && replication["master_link_status"] != "up":
			return fmt.Errorf("redistest: node %d is not in step: %v", i, replication)
		case replication["role"] == "master" && replication["connected_slaves"] == "0" && i < primaries && c.Nodes[i+primaries].Runs():
			return fmt.Errorf("redistest: node %d has no replica yet", i)
		}
	}
	return nil
}

// Info returns the fields of what a command such as INFO says. The name is for errors.
func (s *Server) Info(name string, command ...string) (map[string]string, error) {
	reply, err := s.Do(command...)
	if err != nil {
		return nil, err
	}
	text, ok := reply.(string)
	if !ok {
		return nil, fmt.Errorf("redistest: %s is %v", name, reply)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if field, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[field] = value
		}
	}
	return fields, nil
}

// Addrs is where the nodes listen.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, node := range c.Nodes {
		all = append(all, node.Addr())
	}
	return all
}

// Owner returns the index of the primary that keeps a key: of the first three, or, after
// a failover, of all.
func (c *Cluster) Owner(key string) (int, error) {
	for i, node := range c.Nodes {
		if !node.Runs() {
			continue
		}
		_, err := node.Do("EXISTS", key)
		if err == nil {
			info, err := node.Info("replication", "INFO", "replication")
			if err != nil {
				return 0, err
			}
			if info["role"] == "master" {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("redistest: no node keeps %q", key)
}

// Close kills all.
func (c *Cluster) Close() (err error) {
	for _, node := range c.Nodes {
		err = errors.Join(err, node.Close())
	}
	return err
}
