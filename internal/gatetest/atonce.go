package gatetest

import "sync"

// AtOnce runs f in so many goroutines, each with its number, and returns when all have
// ended. None begins before all are ready.
//
// Where the race is on something fresh, f goes through many of them, always in the same
// order: the goroutines stay close to each other, since the first has the more to do, and
// one that is held up in the middle comes late to what the others have finished. To wait
// for each other at each step would cost more than the steps.
func AtOnce(goroutines int, f func(id int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for id := range goroutines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(id)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}
