# Writes what a command prints to a file: cmake -DOUT=FILE -P WritePage.cmake -- COMMAND...
set(line "")
foreach(i RANGE 1 ${CMAKE_ARGC})
  list(APPEND line "${CMAKE_ARGV${i}}")
endforeach()
string(REGEX REPLACE "^.*;--;" "" line "${line}")
execute_process(COMMAND ${line} OUTPUT_FILE ${OUT} COMMAND_ERROR_IS_FATAL ANY)
