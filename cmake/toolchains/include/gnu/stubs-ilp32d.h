/* Empty on purpose: see ../../target.cmake. */
