"""The frames of Megatron-FSDP v2: what calls, and the attribute that the rules read."""


class FsdpModule:
    def __init__(self, name):
        self._name = name

    def _unshard_parameter_groups(self):
        say()

    def pre_forward(self, next_module=None):
        self._unshard_parameter_groups()
        if next_module is not None:
            next_module._unshard_parameter_groups()

    def pre_backward(self, next_module=None):
        self._unshard_parameter_groups()
        if next_module is not None:
            next_module._unshard_parameter_groups()

    def post_backward(self):
        self._reduce_gradient_groups()

    def _reduce_gradient_groups(self):
        say()
