"""Asks for the site of places that look like those of a sharded training framework, and prints what is said.

Started with libsite_probe.so preloaded, as: sites.py LIBRARY_WITH_ENGINE CASE. The classes and functions have the
names, locals and attributes of PyTorch's FSDP2 and FSDP1; the rules know nothing else of it. A collective is issued
by calling `issue`.
"""

import ctypes
import os
import sys
import threading

without_gil = ctypes.CDLL(None)  # others may run Python during a call, as during PyTorch's collectives
with_gil = ctypes.PyDLL(None)
engine = ctypes.CDLL(sys.argv[1])

for library in (without_gil, with_gil):
    for name in "here", "last", "in_new_thread", "with_pending_exception", "in_subinterpreter":
        getattr(library, f"probe_{name}").restype = ctypes.c_char_p


def say(ask=without_gil.probe_here):
    print(ask().decode())


def all_gather_into_tensor(issue):
    issue()


def in_backward(function, *arguments):
    run = ctypes.CFUNCTYPE(None)(lambda: function(*arguments))
    engine._ZN5torch8autograd6Engine4testEv(run)


class FSDPParamGroup:
    def __init__(self, name):
        self._module_fqn = name

    def unshard(self, issue=say):
        all_gather_into_tensor(issue)

    def pre_forward(self, issue=say):
        self.unshard(issue)

    def pre_backward(self, other=None):
        if other is None:
            self.unshard()
        else:
            self._backward_prefetch(other)

    def _backward_prefetch(self, other):
        self._prefetch_unshard(other)

    @staticmethod
    def _prefetch_unshard(target_fsdp_param_group):
        target_fsdp_param_group.unshard()

    def post_backward(self):
        all_gather_into_tensor(say)


class Subclass(FSDPParamGroup):
    pass


class FSDPState:
    def __init__(self, group):
        self._fsdp_param_group = group

    def _pre_forward(self, prefetch=None):
        if prefetch is None:
            self._fsdp_param_group.pre_forward()
        else:
            FSDPParamGroup._prefetch_unshard(prefetch)

    def _pre_backward(self, prefetch=None):
        self._fsdp_param_group.pre_backward(prefetch)

    def _root_post_backward_final_callback(self):
        self._fsdp_param_group.post_backward()


def fsdp2():
    layer, root = FSDPParamGroup("layers.3"), FSDPParamGroup("")
    FSDPState(root)._pre_forward()
    FSDPState(layer)._pre_forward()
    FSDPState(root)._pre_forward(prefetch=layer)
    in_backward(FSDPState(root)._pre_backward)
    in_backward(FSDPState(root)._pre_backward, layer)
    in_backward(layer.post_backward)
    in_backward(FSDPState(root)._root_post_backward_final_callback)
    FSDPState(root)._pre_backward(layer)  # where the engine cannot be seen
    in_backward(FSDPState(layer)._pre_forward)  # a checkpointed region that runs again
    layer.unshard()  # called by the user
    Subclass("sub").pre_forward()
    all_gather_into_tensor(say)
    in_backward(all_gather_into_tensor, say)


class Record:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Parameter:
    """Counts how often it is hashed or compared."""

    asked = 0

    def __hash__(self):
        Parameter.asked += 1
        return id(self)

    def __eq__(self, other):
        Parameter.asked += 1
        return self is other


FSDP1 = """
def _unshard(state, handle):
    all_gather_into_tensor(say)

def _prefetch_handle(state, current_handle, handle):
    _unshard(state, handle)

def _pre_forward_unshard(state, handle, later=None):
    _prefetch_handle(state, handle, later) if later else _unshard(state, handle)

def _pre_backward_hook(state, handle, later=None):
    _prefetch_handle(state, handle, later) if later else _unshard(state, handle)

def _post_backward_hook(state, handle, later):
    _prefetch_handle(state, handle, later)

def _reduce_grad(state, handle):
    all_gather_into_tensor(say)
"""
exec(compile(FSDP1, "/lib/torch/distributed/fsdp/_runtime_utils.py", "exec"))


def fsdp1():
    parameters = [Parameter() for _ in range(4)]
    names = ["embedding.weight", "layers.0.norm1.weight", "layers.1.norm1.weight", "head.weight"]
    state = Record(_exec_order_data=Record(param_to_fqn={p: [n] for p, n in zip(parameters, names)}))
    asked = Parameter.asked
    unit = lambda parameter, *names: Record(flat_param=Record(_params=[parameter], _fqns=names))
    layer = unit(parameters[2], "norm1.weight", "norm2.weight")
    flat = Record(flat_param=parameters[1])  # use_orig_params=False
    parameters[1]._params, parameters[1]._fqns = None, ("norm1.weight",)
    _pre_forward_unshard(state, layer)
    _pre_forward_unshard(state, unit(parameters[0], "embedding.weight"))
    in_backward(_pre_backward_hook, state, layer)
    in_backward(_pre_forward_unshard, state, layer)
    in_backward(_reduce_grad, state, layer)
    _pre_forward_unshard(state, flat)
    _pre_forward_unshard(state, unit(parameters[3], "of another name"))
    _pre_forward_unshard(state, unit(Parameter(), "unknown to the root"))
    _pre_forward_unshard(state, Record(flat_param=Record(_params=[], _fqns=())))
    _pre_forward_unshard(None, 7)
    _pre_forward_unshard(state, flat, layer)
    in_backward(_pre_forward_unshard, state, flat, layer)
    in_backward(_pre_backward_hook, state, layer, flat)
    in_backward(_post_backward_hook, state, layer, flat)
    print(Parameter.asked - asked)


def odd_names():
    """Names that are none, and attributes that are code: none of it may run."""
    for name in None, 7, b"bytes", ["list"]:
        FSDPParamGroup(name).unshard()
    calls = []
    run = lambda *arguments: calls.append(arguments) or 1 / 0
    for name in "_module_fqn", "__dict__":
        FSDPParamGroup.unshard(type("Odd", (), {name: property(run)})())
    for name in "__getattr__", "__getattribute__":
        FSDPParamGroup.unshard(type("Odd", (), {name: run})())
    FSDPParamGroup.unshard(3)
    print(calls)


def odd_keys():
    """Keys and classes whose look-up is code: none of it may run."""
    calls = []

    class Key:
        def __hash__(self):
            return hash("_module_fqn")

        def __eq__(self, other):
            calls.append(other)
            return False

    class Meta(type):
        def __getattribute__(cls, name):
            calls.append(name)
            return type.__getattribute__(cls, name)

    group = FSDPParamGroup.__new__(FSDPParamGroup)
    group.__dict__.update({Key(): 1, "_module_fqn": "layers.0"})
    odd = Meta("Odd", (), {})()
    odd._module_fqn = "layers.1"
    calls.clear()
    FSDPParamGroup.unshard(odd)
    group.pre_forward()
    print(calls)


MEGATRON_V1 = """
class AllGatherPipeline:
    def all_gather_params(self, buckets):
        return without_gil.probe_here()
"""
exec(compile(MEGATRON_V1, "/lib/megatron_fsdp/param_and_grad_buffer.py", "exec"))


def many_parameters():
    """A bucket of many parameters among very many names, often: looking for each by itself takes minutes."""
    parameters = [object() for _ in range(100000)]
    names = {p: f"layers.{i // 50000}.{i}.weight" for i, p in enumerate(parameters)}
    pipeline = AllGatherPipeline()
    pipeline.buffer = Record(param_to_name=names, parameter_groups=[Record(params=parameters[-1000:])])
    print({pipeline.all_gather_params([0]).decode() for _ in range(60)})
    pipeline.buffer.parameter_groups[0].params[7] = object()  # one without a name
    print({pipeline.all_gather_params([0]).decode() for _ in range(60)})


class Module:
    def __init__(self, **modules):
        self._modules = modules


DEEPSPEED = """
class DeepSpeedZeRoOffload:
    def pre_sub_module_forward_function(self, sub_module):
        return without_gil.probe_here().decode()
"""
exec(compile(DEEPSPEED, "/lib/deepspeed/runtime/zero/parameter_offload.py", "exec"))


def moved_modules():
    """Places are remembered, and are no more what they were."""
    a, b = Module(c=Module()), Module()
    offload = DeepSpeedZeRoOffload()
    offload.module = root = Module(a=a, b=b)
    ask = offload.pre_sub_module_forward_function
    print(ask(root), ask(a._modules["c"]), ask(b), sep=", ")
    root._modules = {"a": b, "d": a}
    print(ask(root), ask(a._modules["c"]), ask(b), sep=", ")
    del root._modules["d"]
    print(ask(root), ask(a._modules["c"]), ask(b), sep=", ")
    root._modules["e"] = root  # a cycle, and what are no names or no modules
    root._modules.update({7: a, "\ud800": a, "f": 3, "g": Module(c=a)})
    print(ask(root), ask(a), ask(3), sep=", ")


def many_modules():
    """Asked for often, found or not: searching all of them each time takes minutes."""
    offload = DeepSpeedZeRoOffload()
    experts = lambda: {str(i): Module(w=Module()) for i in range(500)}
    offload.module = Module(**{f"layer{i}": Module(**experts()) for i in range(60)})
    ask = offload.pre_sub_module_forward_function
    last, none = offload.module._modules["layer59"]._modules["499"]._modules["w"], Module()
    print({ask(last) for _ in range(4000)}, {ask(none) for _ in range(4000)})


def pending_exception():
    try:
        FSDPParamGroup("layers.0").pre_forward(with_gil.probe_with_pending_exception)
    except ValueError as error:
        print(repr(error))
    say(with_gil.probe_last)


def gil():
    group = FSDPParamGroup("layers.0")
    group.pre_forward(lambda: say(with_gil.probe_here))
    group.pre_forward(lambda: say(without_gil.probe_here))
    group.pre_forward(lambda: say(with_gil.probe_in_new_thread))  # taking the GIL there would wait forever
    group.pre_forward(lambda: say(without_gil.probe_in_new_thread))


def threads():
    """Each thread is told its own frames while the others run."""
    seen = {f"layers.{i}": set() for i in range(4)}

    def work(name):
        group = FSDPParamGroup(name)
        for _ in range(300):
            group.pre_forward(lambda: seen[name].add(without_gil.probe_here()))

    running = [threading.Thread(target=work, args=(name,)) for name in seen]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    for name in seen:
        print(name, *seen[name])


def subinterpreter():
    FSDPParamGroup("layers.0").pre_forward(lambda: say(with_gil.probe_in_subinterpreter))
    FSDPParamGroup("layers.0").pre_forward()


def many_functions():
    """More code objects than are kept in mind, each used once and thrown away."""
    wrong = 0
    for i in range(20000):
        scope = {"probe": without_gil.probe_here}
        exec(f"def generated_{i}():\n    return probe()", scope)
        wrong += scope[f"generated_{i}"]() != b"- -"
    print(wrong)
    FSDPParamGroup("layers.0").pre_forward()


def deep():
    """A frame that is too far out is not seen, one that is not is."""

    def descend(levels):
        if levels > 0:
            descend(levels - 1)
        else:
            say()

    FSDPParamGroup("near").pre_forward(lambda: descend(40))
    FSDPParamGroup("far").pre_forward(lambda: descend(400))


def references():
    """Nothing is kept alive and nothing let go."""
    group = FSDPParamGroup("a name of its own".upper())
    held = group, group._module_fqn, group.__dict__, FSDPParamGroup, FSDPParamGroup.pre_forward, say
    ask = lambda: without_gil.probe_here()
    group.pre_forward(ask)
    counts = lambda: [sys.getrefcount(x) for x in held]
    before = counts()
    for _ in range(1000):
        group.pre_forward(ask)
    print([after - count for after, count in zip(counts(), before)])


def finalization():
    """A collective while the interpreter goes down, and one after it."""

    class Late:
        def __del__(self, group=FSDPParamGroup("late"), write=os.write, ask=without_gil.probe_here):
            group.pre_forward(lambda: write(1, b"late: " + ask() + b"\n"))

    with_gil.probe_at_exit()
    FSDPParamGroup("layers.0").pre_forward()
    sys.stdout.flush()
    sys.late = Late()  # goes with the interpreter's last modules


globals()[sys.argv[2]]()
