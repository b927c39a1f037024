/* A library that exports a name of the autograd engine, as libtorch_cpu.so does, and calls what it is given. */
void site_engine_run(void (*run)(void)) __asm__("_ZN5torch8autograd6Engine4testEv");

__attribute__((visibility("default"), noinline)) void site_engine_run(void (*run)(void))
{
    run();
    __asm__ volatile(""); /* no tail call: this frame is on the stack while `run` runs */
}
