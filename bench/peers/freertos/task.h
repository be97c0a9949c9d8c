#pragma once
/* No scheduler: there is no other task to exclude. */
#define vTaskSuspendAll() ((void)0)
#define xTaskResumeAll() 0
#define taskENTER_CRITICAL() ((void)0)
#define taskEXIT_CRITICAL() ((void)0)
