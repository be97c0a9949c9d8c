#ifndef RADIO_H
#define RADIO_H
/* The task "radio" sends messages. For each it creates and deletes a queue, a task, a timer and a stream buffer. */

#ifdef __cplusplus
extern "C" {
#endif

/* To be called before the scheduler starts. */
void radio_start(void);
/* Makes the task send @count messages, and waits until it has sent them. If @forgetful, it leaks one queue in ten. */
void radio_send(unsigned count, int forgetful);

#ifdef __cplusplus
}
#endif
#endif
