package procname
import ("testing";"time";"fmt";"github.com/beamscope/beamscope/internal/vmtest";"github.com/beamscope/beamscope/erlang")
func TestZZ(t *testing.T){
	vm := vmtest.Start(t, erlang.Options{})
	var l Layouts
	t0:=time.Now()
	r, err := l.Open(vm.PID())
	if err!=nil {t.Fatal(err)}
	fmt.Println("open",time.Since(t0))
	fmt.Printf("%+v\n", r.layout)
	t0=time.Now()
	n,err:=r.Lookup(0,0)
	fmt.Println(n,err,time.Since(t0), r.initial)
	t0=time.Now()
	all,err:=r.All()
	fmt.Println(err,time.Since(t0), len(all))
	t0=time.Now()
	all,err=r.All()
	fmt.Println(err,time.Since(t0))
	for _,p:=range all {fmt.Printf("%+v\n",p)}
	t0=time.Now()
	r, err = l.Open(vm.PID())
	fmt.Println("open 2",time.Since(t0))
}
