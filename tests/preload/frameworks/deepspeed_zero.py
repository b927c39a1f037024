"""The frames of DeepSpeed's runtime/zero: what calls, and the locals and attributes that the rules read."""


def gather():
    say()


class DeepSpeedZeRoOffload:
    def __init__(self, module):
        self.module = module

    def pre_sub_module_forward_function(self, sub_module):
        gather()

    def pre_sub_module_backward_function(self, sub_module):
        gather()


class DeepSpeedZeroOptimizer_Stage3:
    def __init__(self, module, param_names, persistent):
        self.module, self.param_names, self.persistent_parameters = module, param_names, persistent

    def reduce(self, parameters):
        self.__reduce_and_partition_ipg_grads(parameters)

    def __reduce_and_partition_ipg_grads(self, parameters):
        params_in_bucket = parameters
        assert all(p is not None for p in params_in_bucket)  # a local that an inner function shares
        self.__avg_scatter_grads()

    def __avg_scatter_grads(self):
        say()

    def create_reduce_and_remove_grad_hooks(self, parameters):
        for param in parameters:

            def hook():
                return param

            gather()

    def step(self):
        say()
        self._post_step()

    def _post_step(self):
        gather()
