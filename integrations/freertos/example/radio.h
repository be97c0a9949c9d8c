#ifndef RADIO_H
#define RADIO_H
/* The task "radio" sends messages; for each it makes and deletes a queue, a task, a timer and a stream buffer. */

#ifdef __cplusplus
extern "C" {
#endif

/* Before the scheduler starts. */
void radio_start(void);
/* Has the task send @count messages, and waits until it has. Of ten it forgets one queue if @forgetful. */
void radio_send(unsigned count, int forgetful);

#ifdef __cplusplus
}
#endif
#endif
