#ifndef BOARD_H
#define BOARD_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
void board_put(const char* text, size_t length);
int c_main(void);
int count_vowels(char* const* words, int count); /* words.cpp */
#ifdef __cplusplus
}
#endif
#endif
