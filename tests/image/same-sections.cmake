# cmake -D OBJCOPY=objcopy -D FIRST=image -D SECOND=image -D FOLDER=folder -P same-sections.cmake: checks that both
# images have the same bytes in .text and in .data.
cmake_minimum_required(VERSION 3.25)
foreach(section .text .data)
  foreach(image FIRST SECOND)
    execute_process(COMMAND ${OBJCOPY} -O binary --only-section=${section} ${${image}} ${FOLDER}/${image}${section}
      COMMAND_ERROR_IS_FATAL ANY)
    file(SIZE ${FOLDER}/${image}${section} ${image}_bytes)
    file(SHA256 ${FOLDER}/${image}${section} ${image}_hash)
  endforeach()
  if(FIRST_bytes EQUAL 0 OR NOT FIRST_hash STREQUAL SECOND_hash)
    message(FATAL_ERROR "${section}: ${FIRST} has ${FIRST_bytes} bytes, ${SECOND} ${SECOND_bytes}, and they are not the same")
  endif()
  message(STATUS "${section}: ${FIRST_bytes} bytes, the same in both images")
endforeach()
