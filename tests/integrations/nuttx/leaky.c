/* leaky: ten messages, of which two are never freed. */
#include <stdio.h>
#include <stdlib.h>

struct message {
  char text[740];
};

static __attribute__((noinline)) struct message* new_message(void) {
  struct message* const message = malloc(sizeof *message);
  if (message != NULL) message->text[0] = 0;
  return message;
}

static __attribute__((noinline)) void send(int number) {
  struct message* const message = new_message();
  if (number % 5 != 0) free(message);
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  for (int number = 0; number < 10; ++number) send(number);
  printf("10 messages sent\n");
  return 0;
}
