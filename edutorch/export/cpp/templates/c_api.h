/* The program @NAME@ for C, and for every language that calls C.

   @NAME@_program* program = @NAME@_load("weights.safetensors");
   if (@NAME@_run(program, inputs, outputs) != 0) puts(@NAME@_error());
   @NAME@_free(program);

   Inputs:
@INPUTS@
   Outputs:
@OUTPUTS@
*/
#ifndef @UPPER@_H
#define @UPPER@_H

#include <stdint.h>

#ifdef _WIN32
#define @UPPER@_API __declspec(dllexport)
#else
#define @UPPER@_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* An array: its elements row by row, how many axes it has, and their sizes. */
typedef struct {
  void* data;
  int64_t rank;
  int64_t shape[8];
} @NAME@_array;

typedef struct @NAME@_program @NAME@_program;

/* Reads the weights; NULL if that fails, and then the reason is @NAME@_error(). */
@UPPER@_API @NAME@_program* @NAME@_load(const char* weights);

/* Runs the program. The elements of the outputs belong to the program, until it runs again.
   Returns 0, or another number if an input does not fit. */
@UPPER@_API int @NAME@_run(@NAME@_program* program, const @NAME@_array* inputs,
                           @NAME@_array* outputs);

/* Why the last call of this thread failed. */
@UPPER@_API const char* @NAME@_error(void);

/* Frees a program; NULL is fine. */
@UPPER@_API void @NAME@_free(@NAME@_program* program);

#ifdef __cplusplus
}
#endif

#endif
