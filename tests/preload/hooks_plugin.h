/* What each plugin answers (hooks_plugin.c). */
#ifndef HOOKS_PLUGIN_H
#define HOOKS_PLUGIN_H

/* The mark of the library that was reached; negative: not always the same, or it refused. */
int plugin_cuda(void);
int plugin_nccl(void);

/* What the NCCL answers to the calling thread, as a ncclResult_t. */
int plugin_group_start(void);
int plugin_group_end(void);

/* An address in the plugin's NCCL. */
void *plugin_vendor(void);

#endif
