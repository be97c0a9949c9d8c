/* vPortDefineHeapRegions(), with regions that are refused before and after; vPortHeapResetState(). */
#include <FreeRTOS.h>
#include <qm_freertos.h>

#include "ledger.h"

static uint8_t small[256], one[262144], other[131072];
static unsigned hook_calls;
void vApplicationMallocFailedHook(void) { ++hook_calls; }

int main(void) {
  const HeapRegion_t none[] = {{NULL, 0}}, too_small[] = {{small, sizeof small}, {NULL, 0}};
  const HeapRegion_t both[] = {{one, sizeof one}, {other, sizeof other}, {NULL, 0}},
                     twice[] = {{one, sizeof one}, {one, sizeof one}, {NULL, 0}};
  CHECK(pvPortMalloc(8) == NULL && qm_freertos_status() == QM_UNSAFE && hook_calls == 1);
  vPortDefineHeapRegions(none);
  CHECK(qm_freertos_status() == QM_INVALID && pvPortMalloc(8) == NULL);
  vPortDefineHeapRegions(too_small);
  CHECK(qm_freertos_status() == QM_INVALID && pvPortMalloc(8) == NULL);
  for (unsigned round = 0; round < 3; ++round) {
    vPortDefineHeapRegions(both);
    CHECK(qm_freertos_status() == QM_OK);
    const size_t total = xPortGetFreeHeapSize();
    CHECK(total > sizeof one + sizeof other - 32768 && total <= sizeof one + sizeof other);
    uint8_t* const large = pvPortMalloc(200000);
    uint8_t* const second = pvPortMalloc(100000);
    CHECK(large >= one && large < one + sizeof one && second >= other && second < other + sizeof other);
    vPortFree(large);
    vPortFree(second);
    CHECK(xPortGetFreeHeapSize() == total && xPortGetMinimumEverFreeHeapSize() <= total - 300000);
    xPortResetHeapMinimumEverFreeHeapSize();
    CHECK(xPortGetMinimumEverFreeHeapSize() == total);
    vPortHeapResetState();
    CHECK(qm_freertos_status() == QM_UNSAFE && xPortGetFreeHeapSize() == 0);
  }
  vPortDefineHeapRegions(twice);
  CHECK(qm_freertos_status() == QM_OVERLAP && pvPortMalloc(8) == NULL);
  board_print("regions are served or refused\n");
  board_finish();
}
