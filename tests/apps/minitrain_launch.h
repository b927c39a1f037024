/* Starts the ranks of a job as processes of this program. */
#ifndef MINITRAIN_LAUNCH_H
#define MINITRAIN_LAUNCH_H

/* Runs this program `ranks` times with the same arguments, and RANK, WORLD_SIZE, LOCAL_RANK and MINITRAIN_ID_FILE set.
 * Returns the exit code of the job: 0, else that of the first rank that failed by itself, else 128 + the signal that
 * ended one. When a rank has failed the others have `seconds` to end; then they are killed. Must be called before the
 * process uses CUDA. */
int mt_launch(int ranks, int seconds, char **argv);

#endif
