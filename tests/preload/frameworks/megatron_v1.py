"""The frames of Megatron-FSDP v1: what calls, and the locals and attributes that the rules read."""

import contextlib


@contextlib.contextmanager
def _coalescing_manager():
    yield
    say()  # what was called inside is issued here


class ParameterGroup:
    def __init__(self, params):
        self.params = params


class ParamAndGradBuffer:
    def __init__(self, groups, names):
        self.parameter_groups, self.param_to_name = [ParameterGroup(params) for params in groups], names


class AllGatherPipeline:
    def __init__(self, buffer):
        self.buffer = buffer

    def all_gather_params(self, bucket_groups):
        for buckets in bucket_groups:
            with _coalescing_manager():
                pass

    def async_bucket_gather(self, bucket_id):
        say()


class GradReducePipeline:
    def __init__(self, buffer):
        self.buffer = buffer

    def _bucket_group_gradient_reduce(self, bucket_group):
        with _coalescing_manager():
            pass


class MegatronFSDP:
    def __init__(self, groups, names):
        buffer = ParamAndGradBuffer(groups, names)
        self.all_gather_pipeline, self.reductions = AllGatherPipeline(buffer), GradReducePipeline(buffer)
        self._register_fsdp_hooks()

    def all_gather_and_wait_parameters_ready(self, params, buckets):
        self.all_gather_pipeline.all_gather_params([[bucket] for bucket in buckets])

    def _register_fsdp_hooks(self):
        def _pre_forward_param_unshard(params, buckets):
            self.all_gather_and_wait_parameters_ready(params, buckets)

        def _pre_backward_param_unshard(params, buckets):
            self.all_gather_and_wait_parameters_ready(params, buckets)

        def _process_post_backward_gradients(buckets):
            self.reductions._bucket_group_gradient_reduce(buckets)

        self.before_forward, self.before_backward = _pre_forward_param_unshard, _pre_backward_param_unshard
        self.after_backward = _process_post_backward_gradients

    def start_param_sync(self):
        self.all_gather_pipeline.async_bucket_gather(1)
