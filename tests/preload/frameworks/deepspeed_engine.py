"""The frame of DeepSpeed's runtime/engine.py under which it gathers while it is made."""


class DeepSpeedEngine:
    def __init__(self, optimizer, parameters):
        say()
        optimizer.create_reduce_and_remove_grad_hooks(parameters)
