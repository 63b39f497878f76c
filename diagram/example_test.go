package diagram_test

import (
	"fmt"
	"log"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
)

func Example() {
	file, err := diagram.Parse("request = parse -> f:lookup(cache, backend);")
	if err != nil {
		log.Fatal(err)
	}
	program, err := diagram.Compile(file)
	if err != nil {
		log.Fatal(err)
	}
	grid, err := dq.NewGrid(time.Millisecond, 100)
	if err != nil {
		log.Fatal(err)
	}
	wait, err := dq.Wait(grid, 20*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	quick, err := dq.Steps(grid, []dq.Step{{T: 2 * time.Millisecond, P: 0.9}}) // the rest are misses
	if err != nil {
		log.Fatal(err)
	}
	models := map[string]*dq.DeltaQ{"parse": dq.Immediate(), "cache": quick, "backend": wait}
	if err := program.Evaluate(func(name string) *dq.DeltaQ { return models[name] }); err != nil {
		log.Fatal(err)
	}
	request, _ := program.Value("request")
	for _, p := range []float64{0.5, 0.95} {
		v, _ := request.Quantile(p)
		fmt.Println(p, "within", v.Hi)
	}
	// Output:
	// 0.5 within 2ms
	// 0.95 within 20ms
}

func ExampleParse_errors() {
	_, err := diagram.Parse("front = a -> s:bakc;\nback = p:kind[0.9, 0.2](b, c);")
	fmt.Println(err)
	// Output:
	// 1:16: s:bakc is not defined
	// front = a -> s:bakc;
	//                ^^^^
	// 2:14: the probabilities of p:kind sum to 1.1: want 1
	// back = p:kind[0.9, 0.2](b, c);
	//              ^
}
