#include "radio.h"

#include <FreeRTOS.h>
#include <queue.h>
#include <semphr.h>
#include <stream_buffer.h>
#include <task.h>
#include <timers.h>

struct order {
  unsigned count;
  int forgetful;
};
static QueueHandle_t orders;
static SemaphoreHandle_t done;

/* The data that the two tasks of a message share. */
struct message {
  StreamBufferHandle_t bytes;
  QueueHandle_t answers;
};

static void receive(void* argument) {
  struct message* const message = argument;
  char bytes[32];
  const size_t count = xStreamBufferReceive(message->bytes, bytes, sizeof bytes, portMAX_DELAY);
  xQueueSend(message->answers, &count, portMAX_DELAY);
  vTaskDelete(NULL);
}

static void repeat(TimerHandle_t timer) { (void)timer; }

__attribute__((noinline)) static void send_message(unsigned number, int forgetful) {
  static const char text[] = "a message";
  struct message message = {xStreamBufferCreate(64, 1), xQueueCreate(4, sizeof(size_t))};
  const TimerHandle_t timeout = xTimerCreate("timeout", pdMS_TO_TICKS(1000), pdFALSE, NULL, repeat);
  size_t answer;
  configASSERT(message.bytes != NULL && message.answers != NULL && timeout != NULL);
  configASSERT(xTaskCreate(receive, "receiver", 512, &message, 3, NULL) == pdPASS);
  xTimerStart(timeout, portMAX_DELAY);
  xStreamBufferSend(message.bytes, text, sizeof text, portMAX_DELAY);
  xQueueReceive(message.answers, &answer, portMAX_DELAY);
  xTimerDelete(timeout, portMAX_DELAY);
  vStreamBufferDelete(message.bytes);
  if (forgetful && number % 10 == 9) return; /* and the queue? */
  vQueueDelete(message.answers);
}

static void radio(void* argument) {
  struct order order;
  (void)argument;
  for (;;) {
    xQueueReceive(orders, &order, portMAX_DELAY);
    for (unsigned number = 0; number < order.count; ++number) {
      send_message(number, order.forgetful);
      vTaskDelay(1); /* the idle task frees the memory of deleted tasks */
    }
    xSemaphoreGive(done);
  }
}

void radio_start(void) {
  orders = xQueueCreate(1, sizeof(struct order));
  done = xSemaphoreCreateBinary();
  configASSERT(orders != NULL && done != NULL);
  configASSERT(xTaskCreate(radio, "radio", 512, NULL, 2, NULL) == pdPASS);
}

void radio_send(unsigned count, int forgetful) {
  const struct order order = {count, forgetful};
  xQueueSend(orders, &order, portMAX_DELAY);
  xSemaphoreTake(done, portMAX_DELAY);
}
